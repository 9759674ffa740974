(defun check (x) (+ x (cast x bf16)))
(def more (lambda (x) (sum (* x (cast x bf16)))))
(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1)
  :loss (let ((x (param "x" [4] :init (zeros shape)))) (sum (check x))))
