(defrun r :seed 1 :steps 1 :loss (sum (ones [2])) :recompute -1)
