(print (1 2))
(print ("f" 2))
(print ([1 2] 0))
