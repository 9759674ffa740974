(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1) :loss (sum (concat [])))
