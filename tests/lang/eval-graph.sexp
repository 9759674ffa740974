(def mask (zeros [2 3]))
(print (param "x" [2]))
