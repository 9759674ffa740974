(def a "one)
(def b 2)
