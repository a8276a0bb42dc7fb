module github.com/coterie/coterie-go

go 1.22
