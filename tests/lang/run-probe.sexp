(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1)
  :loss (+ (probe "a" (sum (param "w" [2 3] :init (zeros shape)))) (probe "a" (sum (param "v" [2] :init (zeros shape))))))
