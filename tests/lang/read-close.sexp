(def a [1 2))
(def b 2))
(def c (+ a b])
