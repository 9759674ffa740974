(print (/ 1 0))
(print (div 1 0))
(print (mod 1 0))
(print (/ 1.0 0))
