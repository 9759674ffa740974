;; evaluate: --set widht=5
(defknob width 4)
(defknob depth 2)
(defrun r :seed 1 :steps 1 :loss (sum (param "x" [2] :init (ones shape))) :optimizer (sgd :lr 0.1))
