; the nearest name holds; a user's own definition does not change the prelude
(def x 1)
(defun relu (x) "mine")
(defun f (x) (let ((x (+ x 1)) (y (* x 10))) [x y]))
(def list-of list)
(print x (f x) (relu 1) (list-of x 2))
(print (let ((list 3) (+ 4)) [list +]))
(print (map (lambda (x) (let ((x (* x x))) x)) [1 2 3]))
(defrun r :seed 1 :steps 1
  :loss (let ((y (silu (param "w" [2] :init (ones shape) :trainable false)))) (begin (print y (relu y)) (sum y))))
