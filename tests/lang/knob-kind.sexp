;; evaluate: --set width=wide
(defknob width 4 :min 1 :max 4096)
(defrun r :seed 1 :steps 1 :loss (sum (param "x" [2] :init (ones shape))) :optimizer (sgd :lr 0.1))
