;; evaluate: --steps 1
; where gradients go at ties and edges
(defun p (name n) (param name [n] :init (zeros shape)))
(defrun r :seed 1 :steps 1 :optimizer (lambda (p g) g)
  :loss (+ (sum (max (p "max-a" 1) (p "max-b" 1))) (sum (min (p "min-a" 1) (p "min-b" 1)))
           (reduce-max (p "reduce-max" 4)) (reduce-min (p "reduce-min" 2))
           (sum (abs (p "abs" 1))) (sum (relu (p "relu" 1)))
           (sum (where (> (p "condition" 1) 0) (p "then" 1) (p "else" 1)))
           (sum (* (cast (iota [3]) f32) (sort (p "sort" 3))))
           (sum (first (top-k (p "top-k" 3) 2)))
           (sum (* 2 (stop-gradient (p "stopped" 2))))
           (sum (mod (p "mod" 1) 3)) (sum (floor (p "floor" 1)))
           (sum (max-pool (reshape (p "pool" 4) [1 2 2 1])))))
