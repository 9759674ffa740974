(def a 1)
(defun f (x)
  (* x (+ x 1))

(defun g (x)
  (f (f x)))
