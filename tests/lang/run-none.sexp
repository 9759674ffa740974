(def a 1)
