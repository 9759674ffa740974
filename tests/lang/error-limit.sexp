(print a01 a02 a03 a04 a05 a06 a07 a08 a09 a10 a11 a12 a13)
(print b01 b02 b03 b04 b05 b06 b07 b08 b09 b10 b11 b12 b13)
