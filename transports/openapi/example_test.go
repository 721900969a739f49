package openapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/transports/openapi"
)

func ExampleTransport() {
	app := fiber.New()
	for _, r := range openapi.New("v1.2.3", true).Routes() {
		app.Add(r.Method, r.Path, r.Public)
	}
	resp, err := app.Test(httptest.NewRequest(http.MethodGet, "/openapi.json", http.NoBody), -1)
	if err != nil {
		panic(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var doc struct {
		OpenAPI string
		Info    struct{ Title, Version string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		panic(err)
	}
	fmt.Println(doc.Info.Title, doc.Info.Version, "in OpenAPI", doc.OpenAPI)
	// Output: Baton v1.2.3 in OpenAPI 3.1.1
}
