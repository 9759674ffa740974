(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1)
  :loss (let ((x (param "x" [2] :init (zeros shape)))) (if (> (sum x) 0) (sum x) (sum (* 2 x)))))
