(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1) :clip 0 :loss (sum (param "w" [2] :init (zeros shape))))
