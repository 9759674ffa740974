(def width 4)
(defun f (x) (+ x widht))
(defun g (x) (unknown-thing x y))
(print (f 1) (sofmax 2))
