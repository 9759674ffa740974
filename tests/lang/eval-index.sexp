(print (nth [1 2 3] 3))
(print (first []))
(print (rest []))
