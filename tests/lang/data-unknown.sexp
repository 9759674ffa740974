(defdata text :source (windows "text.txt" :length 4))
(defrun r :seed 1 :steps 1 :optimizer (sgd :lr 0.1) :data txt :loss (sum (param "w" [2 3] :init (zeros shape))))
