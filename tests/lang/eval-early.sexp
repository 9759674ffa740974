(def a (+ b 1))
(def b 2)
