(defrun r :seed 1 :steps 1 :loss (sum (param "x" [2] :init (zeros shape)))
  :optimizer (lambda (p g) (- p (param "scale" [2] :init (ones shape)))))
