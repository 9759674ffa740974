(include "deeper/more.sexp")
(defun twice (x) (* 2 x))
