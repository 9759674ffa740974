(defun model ()
  (sum (transpose (param "x" [2 3] :init (zeros shape)) [0 1 2])))
(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1)
  :loss (model))
