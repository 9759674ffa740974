;; evaluate: --steps 1
(defrun r :seed 1 :steps 1 :recompute (* 2 4.5) :optimizer (sgd :lr 1)
  :loss (sum (exp (* 2 (param "a" [2] :init (zeros shape))))))
