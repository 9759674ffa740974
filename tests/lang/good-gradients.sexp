;; evaluate: --steps 1
; gradients are nodes, and have gradients: y = sum x^3, its gradient 3 x^2, that of the sum of this 6 x
(defun x () (param "x" [3] :init (cast (+ (iota [3]) 1) f32)))
(defun y (x) (sum (* x x x)))
(defrun r :seed 1 :steps 1 :optimizer (lambda (p g) g)
  :loss (sum (grad (y (x)) (x)))
  :metrics (("second" (sum (first (grad (sum (first (grad (y (x)) [(x)]))) [(x)]))))
            ("of-nothing" (sum (grad (y (x)) (zeros [2]))))
            ("stopped" (sum (grad (y (stop-gradient (x))) (x))))))
