;; evaluate: --variant wide --set lr=2 --set name=plain
(defknob width 4 :doc "units")
(defknob lr 0.1)
(defknob name "x")
(defknob kind f32)
(defknob sizes [1 2])
(defvariant wide :width 512 :lr 0.5 :kind bf16 :sizes [3 4 5])
(print width lr name kind sizes)
(defrun r :seed 1 :steps 1 :loss (sum (param "x" [2] :init (ones shape))) :optimizer (sgd :lr 0.1))
