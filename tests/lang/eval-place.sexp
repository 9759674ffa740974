(defun f () (defknob inner 3))
(print (let ((x 1)) (defdata d :source (arrays "x"))))
(print (param-path))
