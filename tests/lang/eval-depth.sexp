(defun nest (n x) (if (= n 0) x (nest (- n 1) [x])))
(print (= (nest 5000 1) (nest 5000 1)))
