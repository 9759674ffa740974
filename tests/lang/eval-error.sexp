(defun choose (name) (cond ((= name "a") 1) (else (error "no choice called " name))))
(print (choose "b"))
