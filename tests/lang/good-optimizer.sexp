;; evaluate: --steps 3
; a state is saved and given its new value; the parameter's path may choose
(defrun r :seed 1 :steps 3
  :loss (+ (sum (scope "a" (param "w" [2] :init (ones shape)))) (sum (param "b" [2] :init (ones shape))))
  :optimizer (lambda (p g)
    (let ((n (state "n" (full [] 10) (lambda (n) (+ n 1)))))
      (if (matches "a/*" (param-path)) (- p (* n g)) (- p (state "v" (zeros (shape-of p)) (lambda (v) (+ v g))))))))
