(defun model ()
  (sum (stack [(param "x" [2 3] :init (zeros shape)) (zeros [3])])))
(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1)
  :loss (model))
