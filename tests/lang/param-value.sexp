(defrun r :seed 1 :steps 1 :loss (sum (param "w" [2 3] :init (zeros shape)))
  :optimizer (lambda (p g) (sum p)))
