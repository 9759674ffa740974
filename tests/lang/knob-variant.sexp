;; evaluate: --variant wde
(defknob width 4)
(defvariant wide :width 512)
(defvariant deep :depth 3 :width "no")
(defrun r :seed 1 :steps 1 :loss (sum (param "x" [2] :init (ones shape))) :optimizer (sgd :lr 0.1))
