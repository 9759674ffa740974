(print (cond (false 1) ((= 1 2) 2)))
