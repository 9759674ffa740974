(defun forever () (forever))
(print (forever))
