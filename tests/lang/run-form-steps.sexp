(defrun r :seed 1 :steps 0 :optimizer (sgd :lr 0.1) :loss (sum (param "w" [2] :init (zeros shape))))
