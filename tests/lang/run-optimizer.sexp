(defrun r :seed 1 :steps 1 :loss (sum (param "w" [2] :init (zeros shape)))
  :optimizer (lambda (p g) (cast p bf16)))
