(defun a () (scope "m" (param "w" [2 3] :init (zeros shape))))
(defun b () (scope "m" (param "w" [3 2] :init (zeros shape))))
(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1) :loss (+ (sum (a)) (sum (b))))
