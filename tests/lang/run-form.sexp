(defrun a :seed 1 :steps 1 :loss 1 :optimiser (sgd :lr 0.1))
(defrun b :steps)
(defrun c :seed 1 :seed 2)
(defeval e :run a :evry 10)
