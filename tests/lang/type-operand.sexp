(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1)
  :loss (let ((x (param "x" [4] :init (zeros shape)))) (sum (* x (sqrt (iota [4]))))))
