;; evaluate: --text ir
(defun predict (x)
  (+ (* (param "slope" [] :init (zeros shape)) x)
     (param "offset" [] :init (zeros shape))))
(defrun line
  :seed 1 :steps 200
  :loss (mse (predict (uniform [4] :salt :step)) (full [4] 0.5))
  :optimizer (momentum :lr 0.05))
