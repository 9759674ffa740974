(defun deep (n) (+ 1 (deep (+ n 1))))
(defun start (n) (deep n))
(print (start 0))
