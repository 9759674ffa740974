(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1)
  :loss (let ((y (exp (param "x" [2] :init (zeros shape)))))
          (sum (* y (param "z" [2] :init (* y (ones shape)))))))
