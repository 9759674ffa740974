(defrun r :seed 1 :steps 10 :optimizer (sgd :lr 0.1))
