module freeboard/peers

go 1.19
