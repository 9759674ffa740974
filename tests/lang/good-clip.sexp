;; evaluate: --steps 1
(defrun r :seed 1 :steps 1 :clip 1 :optimizer (lambda (p g) g)
  :loss (+ (sum (* 3 (param "a" [] :init (zeros shape)))) (sum (* 4 (param "b" [] :init (zeros shape))))))
