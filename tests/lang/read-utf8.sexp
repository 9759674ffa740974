; café
(def a 1)
