(defun model ()
  (sum (slice (param "x" [2 3] :init (zeros shape)) 1 0 4)))
(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1)
  :loss (model))
