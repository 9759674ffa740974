(defrun r :seed 1 :steps 1 :loss (sum (param "w" [2 3] :init (zeros shape)))
  :optimizer (lambda (p g) (- p (sum (state "m" (zeros [2]) (lambda (m) (zeros [3])))))))
