(defknob width 4 :min "a")
(defknob depth (lambda (x) x))
(defknob rate 0.1 :maximum 1)
